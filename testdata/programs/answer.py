"""Python threads that run NumPy, and BLAS with threads of its own: prints a digest of every result's bits."""
import hashlib
import threading

import numpy

results = [None] * 4


def work(index):
    values = numpy.random.default_rng(index).random((160, 160))
    for _ in range(3):
        values = numpy.sort(numpy.sin(values) @ values.T, axis=1) / 160
    results[index] = values


threads = [threading.Thread(target=work, args=(index,)) for index in range(len(results))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
product = sum(results) @ results[0]
solution = numpy.linalg.solve(product + 160 * numpy.eye(160), results[1])
digest = hashlib.sha256(product.tobytes() + solution.tobytes()).hexdigest()
print(f"{product.sum():.15g} {solution.sum():.15g} {digest}")
