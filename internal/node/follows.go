package node

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

const (
	// followsEvery is how old what other voters said of their followers may be, and followsTime what each is given to say it.
	followsEvery = 5 * time.Second
	followsTime  = time.Second
)

// followers are who follows whom, as far as other voters have said.
type followersElsewhere struct {
	mu    sync.Mutex
	asked time.Time
	links []control.FollowLink
}

// followsHere is who follows this machine, and whom this one follows.
func (n *Node) followsHere() []control.FollowLink {
	out := []control.FollowLink{}
	b, v := n.serving.Load(), n.view.Load()
	if b == nil || v == nil {
		return out
	}
	if b.learner != nil {
		if voter := b.learner.Status().Following; voter != "" {
			out = append(out, control.FollowLink{ID: n.id, Follows: voter})
		}
		return out
	}
	if n.isLeader() {
		for _, m := range v.Voters() {
			if m.ID != n.id && n.hub.ByKey(m.Key) != nil {
				out = append(out, control.FollowLink{ID: m.ID, Follows: n.id})
			}
		}
	}
	n.followers.Range(func(session, _ any) bool {
		if s, ok := session.(*netio.Session); ok && s.Err() == nil {
			if m, ok := v.ByKey(s.Peer()); ok && m.Role != fleet.RoleVoter {
				out = append(out, control.FollowLink{ID: m.ID, Follows: n.id})
			}
		}
		return true
	})
	return out
}

// follows answers Status "follows": to a peer what is known here, to this machine's administrators what the voters say too.
func (n *Node) follows(ctx context.Context, p control.Peer) control.FollowList {
	links := n.followsHere()
	if p.Local {
		links = append(links, n.followsElsewhere(ctx)...)
	}
	return control.FollowList{V: control.DocumentVersion, View: n.pictured(), Links: oneEach(links)}
}

// oneEach keeps the first word of each machine, by id: what is known here stands before what others said seconds ago.
func oneEach(links []control.FollowLink) []control.FollowLink {
	slices.SortStableFunc(links, func(a, b control.FollowLink) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(links, func(a, b control.FollowLink) bool { return a.ID == b.ID })
}

// followsElsewhere is what the other voters say of their followers. Of each it is believed of itself only.
func (n *Node) followsElsewhere(ctx context.Context) []control.FollowLink {
	f := &n.followed
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); f.asked.IsZero() || now.Sub(f.asked) >= followsEvery {
		f.asked = now
		f.links = n.askFollows(ctx)
	}
	return slices.Clone(f.links)
}

func (n *Node) askFollows(ctx context.Context) []control.FollowLink {
	ctx, cancel := context.WithTimeout(ctx, followsTime)
	defer cancel()
	v := n.view.Load()
	var wait sync.WaitGroup
	voters := v.Voters()
	said := make([][]control.FollowLink, len(voters))
	for i, m := range voters {
		if m.ID == n.id || n.hub.ByKey(m.Key) == nil {
			continue
		}
		wait.Go(func() {
			var list control.FollowList
			if err := n.callMember(ctx, m.ID, wire.VerbStatus, wire.StatusRequest{What: "follows"}, &list); err != nil {
				return // an older version, or one that is just going: the picture has a line less
			}
			for _, l := range list.Links {
				if _, member := v.Member(l.ID); member && l.Follows == m.ID {
					said[i] = append(said[i], l)
				}
			}
		})
	}
	wait.Wait()
	return slices.Concat(said...)
}
