"""Zones with every habit: none, half and quarter hours, either hemisphere's summer time, skipped midnights."""

ZONES = [
    "UTC", "Asia/Tokyo", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Kiritimati",
    "Pacific/Pago_Pago", "America/St_Johns", "America/New_York", "America/Los_Angeles", "America/Havana",
    "America/Santiago", "Atlantic/Azores", "Africa/Casablanca", "Asia/Beirut", "Europe/London", "Europe/Berlin",
]  # fmt: skip
