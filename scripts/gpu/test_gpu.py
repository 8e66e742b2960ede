"""Tests of the measuring script on the processor: python3 -m unittest discover -s scripts/gpu"""

import os
import tempfile
import unittest

import budget
import files
import machine
import parts
import shapes
import table

try:
    import torch
except ImportError:
    torch = None


class TestBudget(unittest.TestCase):
    def test_what_a_part_leaves_goes_to_the_others(self):
        now = [100.0]
        b = budget.Budget(60, {"a": 1, "b": 1, "c": 2}, clock=lambda: now[0])
        self.assertEqual(b.part("a"), 115)
        now[0] = 105  # a took 5 of its 15 s
        self.assertAlmostEqual(b.part("b"), 105 + 55 / 3)
        now[0] = 150  # b overran
        self.assertEqual(b.part("c"), 160)

    def test_no_part_ends_after_the_whole(self):
        now = [0.0]
        b = budget.Budget(10, {"a": 1, "b": 1}, clock=lambda: now[0])
        b.part("a")
        now[0] = 12
        self.assertEqual(b.part("b"), 12)

    def test_split(self):
        now = [0.0]
        ends = budget.split(lambda: now[0], 12, 3)
        self.assertEqual(next(ends), 4)
        now[0] = 8
        self.assertEqual(next(ends), 10)


class TestRoom(unittest.TestCase):
    shares = shapes.ACCELERATOR.cache_shares

    def test_a_large_device_holds_every_load(self):
        wanted = shapes.ACCELERATOR.most_cached()
        self.assertEqual(parts.room(80 << 30, shapes.OPT, self.shares, wanted), [wanted] * 3)

    def test_a_smaller_device_holds_less(self):
        some = parts.room(24 << 30, shapes.OPT, self.shares, 1 << 17)
        self.assertTrue(all(0 < n < 1 << 17 for n in some), some)
        used = sum(2 * (12 * s.layers * s.hidden**2 + s.vocabulary * s.hidden) + n * 2 * s.kv_elements() for s, n in zip(shapes.OPT, some))
        self.assertLess(used, 0.9 * (24 << 30))

    def test_the_largest_is_left_out_where_it_does_not_fit(self):
        some = parts.room(12 << 30, shapes.OPT, self.shares, 1 << 17)
        self.assertTrue(some[0] > 0 and some[1] > 0 and some[2] == 0, some)


class TestActivity(unittest.TestCase):
    def test_steps_count_for_the_part_that_is_within(self):
        a = parts.activity("m", shapes.Cell(batch=2, context=8), 1.0, [(0, 1, 4.0), (1, 2, 4.0), (2, 3, 8.0)], {"begin": 0.5, "end": 2.5})
        self.assertAlmostEqual(a["steps_per_s"], 1.0)
        self.assertAlmostEqual(a["gpu_ms"], (0.5 * 4 + 4 + 0.5 * 8) / 2)
        self.assertAlmostEqual(a["step_ms"], 1000)
        self.assertEqual((a["batch"], a["context"], a["model"]), (2, 8, "m"))

    def test_nothing_within(self):
        a = parts.activity("m", shapes.Cell(batch=2, context=8), 1.0, [(0, 1, 4.0)], {"begin": 2, "end": 3})
        self.assertEqual((a["steps_per_s"], a["step_ms"], a["gpu_ms"]), (0, 0, 0))


class TestFiles(unittest.TestCase):
    def test_what_was_written_is_read_cold_and_warm(self):
        data = os.urandom(3 * files.PAGE + 17)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "weights")
            with files.Writer(path) as out:
                out.write(memoryview(data))
                out.flush()
            for opened in (files.open_cold(path), files.open_warm(path)):
                got, at = b"", 0
                buffer = files.mmap.mmap(-1, 2 * files.PAGE)
                while at < len(data):
                    n = opened.read(memoryview(buffer), at, len(data))
                    self.assertGreater(n, 0)
                    got, at = got + buffer[:n], at + n
                opened.close()
                self.assertEqual(got, data, opened.cache)


class TestTable(unittest.TestCase):
    def test_rows_are_there_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.jsonl")
            t = table.Table(path, quiet=True)
            t.add("decode", step_ms=1.23456789, none=None, beside=[{"gpu_ms": 2.00000001}])
            with open(path, encoding="utf-8") as lines:
                self.assertEqual(lines.read(), '{"kind": "decode", "step_ms": 1.23457, "beside": [{"gpu_ms": 2.0}]}\n')
            t.close()


class TestMachine(unittest.TestCase):
    def test_a_command_that_is_not_there(self):
        self.assertEqual(machine.run("no-such-command-at-all"), "")


@unittest.skipIf(torch is None, "no PyTorch")
class TestDecoder(unittest.TestCase):
    def decoder(self, tokens=64):
        from decoder import Decoder

        return Decoder(shapes.TINY[0], torch.device("cpu"), torch.float32, tokens)

    def test_a_decode_step_is_that_of_the_whole_prompt(self):
        d = self.decoder()
        n = 24
        prompt = torch.randint(0, d.shape.vocabulary, (1, n))
        whole = d.forward(prompt, n)
        # The keys and values of the first n-1 are in the cache of length n; its last row is made anew.
        for layer in range(d.shape.layers):
            for view in d._keys(layer, 1, n):
                view[:, :, n - 1 :].fill_(123)
        step = d.forward(prompt[:, n - 1 :], n)
        self.assertTrue(torch.allclose(whole, step, atol=1e-4), (whole - step).abs().max())

    def test_the_last_token_sees_the_first(self):
        d = self.decoder()
        prompt = torch.randint(0, d.shape.vocabulary, (1, 16))
        before = d.forward(prompt, 16).clone()
        prompt[0, 0] = (prompt[0, 0] + 1) % d.shape.vocabulary
        self.assertFalse(torch.allclose(before, d.forward(prompt, 16)))

    def test_fused_attention_is_the_plain_one(self):
        import decoder as module

        if not hasattr(torch.nn.functional, "scaled_dot_product_attention"):
            self.skipTest("this PyTorch has no fused attention")
        q, k, v = (torch.randn(2, 3, 8, 4) for _ in range(3))
        for causal in (False, True):
            fused = module.attention(q, k, v, causal)
            scores = q @ k.transpose(-2, -1) / 2
            if causal:
                scores = scores.masked_fill(torch.ones(8, 8, dtype=torch.bool).triu(1), float("-inf"))
            self.assertTrue(torch.allclose(fused, scores.softmax(-1) @ v, atol=1e-5))

    def test_a_load_that_does_not_fit_says_so(self):
        from decoder import Step

        with self.assertRaisesRegex(MemoryError, "80 tokens"):
            Step(self.decoder(64), shapes.Cell(batch=10, context=8), False)

    def test_parameters_are_those_of_opt(self):
        from decoder import Decoder

        for shape, billions in zip(shapes.OPT, (0.125, 1.3, 6.7)):
            d = Decoder.__new__(Decoder)
            d.shape = shape
            self.assertLess(abs(sum(n for _, n, _ in d._sizes()) / 1e9 / billions - 1), 0.02, shape.name)

    def test_sleep_frees_the_weights_and_wake_brings_them_back(self):
        import moves
        from worker import Worker

        w = Worker(None, shapes.TINY[0], torch.device("cpu"), torch.float32)
        w.do_build({"cache_tokens": 16})
        before = w.decoder.weights.clone()
        kept = torch.empty_like(before).copy_(before)
        rows = moves.sleeps(w, kept, 1, float("inf"))
        self.assertEqual([r["kind"] for r in rows], ["sleep", "wake"])
        self.assertTrue(torch.equal(before, w.decoder.weights))
        self.assertTrue(torch.equal(before[: 512 * 64].view(512, 64), w.decoder.at["embedding"]), "views follow the storage")


if __name__ == "__main__":
    unittest.main()
