/** Runs requests side by side, as many as the server accepts.
 *
 * The number of requests at a time grows by one after every full round without a refusal, and is
 * halved when the server answers 429. A refused request waits for the time that the server names
 * and is sent again; so is a request that failed for a reason that passes (408, 449, 503, no
 * connection).
 *
 * Promises: every task ends with exactly one outcome, and no task starts after the signal aborts.
 *
 * Leaves out: the order of tasks; several run at once. */

/** The answer to one attempt. */
export interface Attempt {
  status: number;
  charge: number;
  retryAfterMs: number;
  /** Words of the server for a refusal. */
  message: string;
}

/** A task that ended: with success, or with the last refusal. */
export interface Outcome<T> {
  task: T;
  isDone: boolean;
  status: number;
  message: string;
}

/** Figures of a run. */
export interface PaceFigures {
  done: number;
  refused: number;
  /** Answers 429 so far; each was sent again. */
  throttled: number;
  charge: number;
  concurrency: number;
}

/** Rules of a run. */
export interface PaceOptions<T> {
  send(task: T, signal: AbortSignal): Promise<Attempt>;
  onOutcome(outcome: Outcome<T>): void;
  signal: AbortSignal;
  concurrencyMax?: number;
  /** Waits; replaced in tests. */
  wait?: (milliseconds: number, signal: AbortSignal) => Promise<void>;
}

/** Attempts for reasons that pass, apart from 429, which is repeated until it is accepted. */
const ATTEMPTS_MAX = 6;

/** Refusals by rate in a row after which a task is given up: minutes at the usual waits. */
const THROTTLES_MAX = 200;

const WAIT_MS = 250;

/** Returns true for a status that another attempt may change. */
export function mayPass(status: number): boolean {
  return status === 0 || status === 408 || status === 449 || status === 503;
}

/** Waits for a time, or shorter if the signal aborts. */
export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const finish = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, milliseconds);
    signal.addEventListener("abort", finish);
  });
}

/** Runs tasks side by side. `add` waits while enough tasks are under way. */
export class Pace<T> {
  readonly figures: PaceFigures;
  private readonly options: PaceOptions<T>;
  private readonly concurrencyMax: number;
  private readonly wait: (milliseconds: number, signal: AbortSignal) => Promise<void>;
  private running = 0;
  private acceptedInRound = 0;
  private wakers: (() => void)[] = [];

  constructor(options: PaceOptions<T>) {
    this.options = options;
    this.concurrencyMax = options.concurrencyMax ?? 6;
    this.wait = options.wait ?? pause;
    const concurrency = Math.min(2, this.concurrencyMax);
    this.figures = { done: 0, refused: 0, throttled: 0, charge: 0, concurrency };
    options.signal.addEventListener("abort", () => this.wake());
  }

  /** Starts a task as soon as there is room. Returns false if the run was aborted before. */
  async add(task: T): Promise<boolean> {
    while (this.running >= this.figures.concurrency && !this.options.signal.aborted) {
      await new Promise<void>((resolve) => this.wakers.push(resolve));
    }
    if (this.options.signal.aborted) return false;
    this.running += 1;
    void this.run(task);
    return true;
  }

  /** Waits until all tasks that were added have ended. */
  async finish(): Promise<void> {
    while (this.running > 0) {
      await new Promise<void>((resolve) => this.wakers.push(resolve));
    }
  }

  private wake(): void {
    const wakers = this.wakers;
    this.wakers = [];
    for (const waker of wakers) waker();
  }

  private async run(task: T): Promise<void> {
    const outcome = await this.attempts(task);
    if (outcome.isDone) this.figures.done += 1;
    else this.figures.refused += 1;
    this.running -= 1;
    this.options.onOutcome(outcome);
    this.wake();
  }

  private async attempts(task: T): Promise<Outcome<T>> {
    const { signal } = this.options;
    let failures = 0;
    let throttles = 0;
    for (;;) {
      if (signal.aborted) return { task, isDone: false, status: 0, message: "Cancelled." };
      const attempt = await this.attempt(task);
      this.figures.charge += attempt.charge;
      const { status, message } = attempt;
      if (status >= 200 && status < 300) {
        this.accepted();
        return { task, isDone: true, status, message };
      }
      if (status === 429 && throttles < THROTTLES_MAX) {
        throttles += 1;
        this.figures.throttled += 1;
        this.figures.concurrency = Math.max(1, Math.floor(this.figures.concurrency / 2));
        this.acceptedInRound = 0;
        await this.wait(Math.max(attempt.retryAfterMs, 10), signal);
        continue;
      }
      failures += 1;
      if (!mayPass(status) || failures >= ATTEMPTS_MAX) {
        return { task, isDone: false, status, message };
      }
      await this.wait(WAIT_MS * 2 ** failures, signal);
    }
  }

  private async attempt(task: T): Promise<Attempt> {
    try {
      return await this.options.send(task, this.options.signal);
    } catch (error) {
      const message = this.options.signal.aborted ? "Cancelled." : (error as Error).message;
      return { status: 0, charge: 0, retryAfterMs: 0, message };
    }
  }

  private accepted(): void {
    this.acceptedInRound += 1;
    if (this.acceptedInRound < this.figures.concurrency * 4) return;
    this.acceptedInRound = 0;
    if (this.figures.concurrency < this.concurrencyMax) {
      this.figures.concurrency += 1;
      this.wake();
    }
  }
}

/** Returns the milliseconds that remain at the rate so far, or null before there is a rate. */
export function timeLeftMs(done: number, total: number, elapsedMs: number): number | null {
  if (done <= 0 || elapsedMs <= 0) return null;
  return Math.max(0, ((total - done) / done) * elapsedMs);
}
