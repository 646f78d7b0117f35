/** `fetch` over a Unix socket, where the platform is Node: its own can't. */

/** Sends requests to whoever listens at `path`, whatever host they name. */
export function socketFetch(path: string): (request: Request) => Promise<Response> {
  return async (request) => {
    const http = await import("node:http");
    const { pathname, search } = new URL(request.url);
    const body = Buffer.from(await request.arrayBuffer());
    const { method, signal } = request;
    const headers = Object.fromEntries(request.headers);
    const asked = { socketPath: path, path: `${pathname}${search}`, method, headers, signal };
    return new Promise((resolve, reject) => {
      const outgoing = http.request(asked, (incoming) => {
        const pieces: Buffer[] = [];
        incoming.on("data", (piece: Buffer) => pieces.push(piece));
        incoming.on("error", reject);
        incoming.on("end", () => {
          const status = incoming.statusCode ?? 502;
          const isEmpty = status === 204 || status === 304;
          const headers = new Headers();
          for (const [name, value] of Object.entries(incoming.headers)) headers.set(name, String(value));
          resolve(new Response(isEmpty ? null : Buffer.concat(pieces), { status, headers }));
        });
      });
      outgoing.on("error", reject);
      outgoing.end(body);
    });
  };
}
