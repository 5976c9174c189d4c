"""The only home of pyspark: the session, the log as a stream, stored datasets, channels."""
