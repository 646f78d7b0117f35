// pg-boss: node pgboss.mjs fill|drain URL single|lots ROWS WORKERS LOT
//
// As many loops of fetch and complete as there are workers; pg-boss's own `work()` polls at most every half second.
import PgBoss from 'pg-boss'

const [step, url, mode, ...numbers] = process.argv.slice(2)
const [rows, workers, lot] = numbers.map(Number)
const FILL_LOT = 1000
const QUEUE = 'noop'

const boss = new PgBoss({ connectionString: url, max: workers, supervise: false, schedule: false })
boss.on('error', error => { throw error })
await boss.start()

async function fill () {
  await boss.createQueue(QUEUE)
  for (let made = 0; made < rows; made += FILL_LOT) {
    await boss.insert(Array.from({ length: Math.min(FILL_LOT, rows - made) }, () => ({ name: QUEUE, data: {} })))
  }
}

async function worker (batchSize) {
  let completed = 0
  for (;;) {
    const jobs = await boss.fetch(QUEUE, { batchSize })
    if (jobs.length === 0) return completed
    await boss.complete(QUEUE, jobs.map(job => job.id))
    completed += jobs.length
  }
}

async function drain () {
  const batchSize = mode === 'lots' ? lot : 1
  const before = process.cpuUsage()
  const start = performance.now()
  const completed = await Promise.all(Array.from({ length: workers }, () => worker(batchSize)))
  const took = performance.now() - start
  const used = process.cpuUsage(before)
  console.log(JSON.stringify({
    took_ms: took, processor_ms: (used.user + used.system) / 1000, completed: completed.reduce((sum, n) => sum + n, 0)
  }))
}

await (step === 'fill' ? fill() : drain())
await boss.stop({ graceful: false })
