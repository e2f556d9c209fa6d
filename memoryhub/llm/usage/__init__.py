"""Usage of providers: every call recorded, prices, reports, and calibration of token counts by real answers."""
