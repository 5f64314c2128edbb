# SPDX-License-Identifier: Apache-2.0
"""A CUDA graph that another thread captures, in the strictest mode, which is also PyTorch's: some questions that another thread asks
CUDA spoil it."""
import ctypes
import threading

GLOBAL = 0  # CU_STREAM_CAPTURE_MODE_GLOBAL


class Capture:
    """By the driver itself: PyTorch would wait, before it begins, until nothing is under way."""

    def __init__(self, device):
        self.device = device
        self.begun, self.end_asked = threading.Event(), threading.Event()
        self.results = []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        self.begun.wait()

    def run(self):
        import torch
        torch.cuda.set_device(self.device)
        driver, stream, graph = ctypes.CDLL("libcuda.so.1"), torch.cuda.Stream(), ctypes.c_void_p()
        handle = ctypes.c_void_p(stream.cuda_stream)
        self.results.append(driver.cuStreamBeginCapture_v2(handle, GLOBAL))
        self.begun.set()
        self.end_asked.wait()
        self.results.append(driver.cuStreamEndCapture(handle, ctypes.byref(graph)))

    def end(self):
        """What CUDA said of its begin and of its end: 0, or an error."""
        self.end_asked.set()
        self.thread.join()
        return self.results
