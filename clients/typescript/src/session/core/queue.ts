/** A queue whose both ends are cheap. */

export class Queue<T> {
  #items: (T | undefined)[] = [];
  #first = 0;

  get length(): number {
    return this.#items.length - this.#first;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  peek(): T | undefined {
    return this.#items[this.#first];
  }

  /** The item at a place from the front. */
  at(place: number): T | undefined {
    return this.#items[this.#first + place];
  }

  shift(): T | undefined {
    const item = this.#items[this.#first];
    if (this.#first < this.#items.length) {
      this.#items[this.#first++] = undefined;
      if (this.#first > 64 && this.#first * 2 > this.#items.length) {
        this.#items = this.#items.slice(this.#first);
        this.#first = 0;
      }
    }
    return item;
  }

  clear(): void {
    this.#items = [];
    this.#first = 0;
  }

  *[Symbol.iterator](): Iterator<T> {
    for (let place = 0; place < this.length; place++) {
      yield this.at(place) as T;
    }
  }
}
