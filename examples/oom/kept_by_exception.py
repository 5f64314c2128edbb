# SPDX-License-Identifier: Apache-2.0
"""Dangling tensors in a traceback: an exception that is kept holds the frames that it came through, and all their variables.

A server notes the error of a request and goes on. The request's tensors stay.

Remedy: keep the exception's text, or error.with_traceback(None).
"""
import torch
from scene import MIB, REMEDY, allocated, done, start, wait

errors = []


def answer(request):
    hidden = torch.zeros(48 * MIB, dtype=torch.uint8, device="cuda")
    raise ValueError(f"request {request} is too long for {hidden.shape}")


def serve(requests):
    for request in requests:
        try:
            answer(request)
        except ValueError as error:
            errors.append(error.with_traceback(None) if REMEDY else error)


def main():
    start()
    begin = allocated()
    serve(range(4))
    held = allocated() - begin
    if REMEDY:
        done(held == 0, held=held, errors=len(errors))
    wait(held=held, errors=len(errors))


if __name__ == "__main__":
    main()
