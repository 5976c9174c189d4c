"""Offers played through the live system with consumer logs, on Kafka and MariaDB: the same measures
as the simulator's, and what it predicts with the costs that were measured.
"""
