"""Everything that talks to Spark: sessions, reading, index building, and the strategies, which never import each other.

Only DataFrames: no RDD, no SparkContext, so that the same code runs on Spark Connect.
"""
