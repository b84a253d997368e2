-- Whether a script that may write would be let in: Redis refuses this one as it would refuse a reservation, for a full
-- memory, a disk that fails, too few replicas or a missing permission. It has no key, so every master runs it, and it
-- writes nothing.
return 0
