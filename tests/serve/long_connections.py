"""bochner serve: 10,000 connections in sequence, with and without requests, leave no memory and no files behind."""
import unittest
import server
from hostile import many_connections
from server import Server, wait_until


class Long(unittest.TestCase):
    def test_connections(self):
        with Server(server.words()) as each:
            many_connections(each, 1000)
            memory, files = each.rss(), each.files()
            many_connections(each, 10_000)
            wait_until(lambda: each.files() <= files + 2, "files are closed")
            self.assertTrue(server.SANITIZED or each.rss() - memory < 4 << 20, "memory grew by %d bytes" % (each.rss() - memory))
            self.assertEqual(len(each.text("le", max_tokens=3, temperature=0)), 3)


if __name__ == "__main__":
    unittest.main()
