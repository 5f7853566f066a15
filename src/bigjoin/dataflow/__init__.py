"""The paper's dataflow primitive (section 3.2), without Spark: what workers do with the prefixes that visit them."""
