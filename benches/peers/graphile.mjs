// graphile-worker: node graphile.mjs fill|drain URL single|lots ROWS WORKERS LOT
//
// `single` is the default: each worker fetches and completes a job with one statement each. `lots` follows the
// documentation's advice for throughput: a local queue of 500, and batched completions. It waits until the table is
// empty, not until the last job has run, since completions are asynchronous.
import { Logger, run, runMigrations } from 'graphile-worker'
import pg from 'pg'

const [step, url, mode, ...numbers] = process.argv.slice(2)
const [rows, workers] = numbers.map(Number)
const FILL_LOT = 5000
const LOCAL_QUEUE = { localQueue: { size: 500, refetchDelay: { durationMs: 10 } }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }

const pgPool = new pg.Pool({ connectionString: url, max: workers + 1 })
pgPool.on('error', () => {})
pgPool.on('connect', client => client.on('error', () => {}))

async function fill () {
  await runMigrations({ pgPool })
  for (let made = 0; made < rows; made += FILL_LOT) {
    const specs = Array.from({ length: Math.min(FILL_LOT, rows - made) }, () => ({ identifier: 'noop', payload: {} }))
    await pgPool.query(
      'select graphile_worker.add_jobs(array(select json_populate_recordset(null::graphile_worker.job_spec, $1::json)))',
      [JSON.stringify(specs)])
  }
}

async function left () {
  return (await pgPool.query('select count(*)::int as n from graphile_worker._private_jobs')).rows[0].n
}

async function drain () {
  let ran = 0
  let allRan
  const finished = new Promise(resolve => { allRan = resolve })
  const before = process.cpuUsage()
  const start = performance.now()
  const runner = await run({
    pgPool,
    taskList: { noop: async () => { if (++ran === rows) allRan() } },
    noHandleSignals: true,
    logger: new Logger(() => () => {}),
    preset: { worker: { concurrentJobs: workers, maxPoolSize: workers + 1, ...(mode === 'lots' ? LOCAL_QUEUE : {}) } }
  })
  await finished
  while (await left() > 0);
  const took = performance.now() - start
  const used = process.cpuUsage(before)
  await runner.stop()
  console.log(JSON.stringify({ took_ms: took, processor_ms: (used.user + used.system) / 1000, completed: ran - await left() }))
}

await (step === 'fill' ? fill() : drain())
await pgPool.end()
