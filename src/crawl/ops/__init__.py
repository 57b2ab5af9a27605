"""Operations on tensors, a plain form beside the fast ones. A leaf: nothing here knows a module or a graph."""
