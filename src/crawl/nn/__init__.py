"""The layers of CRaWl."""

from crawl.nn.conv import CRaWlConv
from crawl.nn.encoders import Dense, Embedding, OneHot
from crawl.nn.membership import Membership
from crawl.nn.readout import Readout
from crawl.nn.virtual_node import VirtualNode

__all__ = ["CRaWlConv", "Dense", "Embedding", "Membership", "OneHot", "Readout", "VirtualNode"]
