"""`python -m crawl` is the command `crawl`."""

import sys

from crawl.cli import main

sys.exit(main())
