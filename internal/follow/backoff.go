package follow

import (
	"cmp"
	"slices"
	"time"

	"pace-node/internal/fleet"
)

// backoff returns the wait before attempt n (0 = the first after a success) for a random r of [0, 1).
func backoff(n int, r float64) time.Duration {
	middle := backoffCap
	if n < 8 { // 2 s · 2⁸ is beyond the cap, and a much larger shift would overflow
		middle = min(backoffCap, backoffBase<<n)
	}
	return time.Duration(float64(middle) * (1 - backoffJitter + 2*backoffJitter*r))
}

// order returns the voters in the order in which they are dialled: the leader first, the one just left last, the others
// in an order of each machine's own, so that a fleet spreads over them.
func order(voters []fleet.Member, leader, left string, rand func() float64) []fleet.Member {
	type ranked struct {
		m    fleet.Member
		rank float64
	}
	list := make([]ranked, len(voters))
	for i, m := range voters {
		rank := 1 + rand()
		switch m.ID {
		case left:
			rank = 3
		case leader:
			rank = 0
		}
		list[i] = ranked{m, rank}
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	out := make([]fleet.Member, len(list))
	for i := range list {
		out[i] = list[i].m
	}
	return out
}
