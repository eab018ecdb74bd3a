import pyarrow as pa


class UntilOrder:
    """The seconds from the first click to the first order. Null without an order."""

    most = 1000
    value_type = pa.float64()

    def start(self):
        return {"first": None, "ordered": None}

    def step(self, state, at, orders):
        return {"first": state["first"] or at, "ordered": at if orders else None}

    def done(self, state):
        return state["ordered"] is not None

    def finish(self, state):
        return (state["ordered"] - state["first"]).total_seconds() if state["ordered"] else None
