"""Work in several threads, for tests."""

from concurrent.futures import ThreadPoolExecutor


def in_threads(work, count):
    """Runs work(k) for each k below count, in threads of their own at once, and raises what one of them raised."""
    with ThreadPoolExecutor(count) as pool:
        for one in [pool.submit(work, k) for k in range(count)]:
            one.result()
