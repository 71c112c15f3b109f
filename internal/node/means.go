package node

import (
	"context"
	"errors"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/provision"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// means is what is known of who could provision machines. It is the loop's.
type means struct {
	profile string // the fleet's setting, as last followed
	fault   error  // why this machine could not; nil: it could, or nobody has looked
	handing bool   // leadership is being handed over for it
	queue.Means
}

const helperMissing = "provisioning-helper-missing"

// checkSetting judges a setting before it is proposed; of the profile also what its options say.
func checkSetting(name, value string) error {
	if err := fleet.CheckSetting(name, value); err != nil {
		return err
	}
	if name != fleet.SettingProvisioning {
		return nil
	}
	var refused *config.RefusedError
	if err := config.CheckProfile(fleet.ParseProfile(value)); errors.As(err, &refused) {
		return wire.NewError(wire.CodeRefusedByRule, refused.Reason(), refused.Way())
	}
	return nil
}

// followProfile takes the fleet's setting provision.profile into use: what this machine was given itself stands before it.
func (n *Node) followProfile(b *body) {
	v := b.view()
	text, _ := v.Setting(fleet.SettingProvisioning)
	if text == n.means.profile {
		return
	}
	n.means.profile = text
	settings, faults := n.cfg.Settings.WithProfile(v.Profile())
	for _, err := range faults {
		n.log.Warn("an option of provision.profile is passed over by this version", "error", control.Sentence(err.Error()))
	}
	n.log.Info("provision.profile is followed")
	n.provisioner.Configure(provisionConfig(settings))
}

// meansSeen keeps whether this machine could provision others, tells the other voters when that has changed, and shows it.
func (n *Node) meansSeen(err error) {
	n.means.fault = err
	if n.provisions.Swap(err == nil) != (err == nil) {
		now := time.Now()
		for _, s := range n.voterSessions() {
			n.announceTo(now, s)
		}
	}
	n.showHelper()
}

// meansHeard keeps what another member announced; a leader that has nothing to provision with may hand over to it.
func (n *Node) meansHeard(id string, provisions bool) {
	if !n.means.Heard(id, provisions) {
		return
	}
	n.showHelper()
	if provisions && n.queuePaused != "" {
		n.handQueueOver(n.queuePaused)
	}
}

// able are the voters that announced that they could provision, and have a session.
func (n *Node) able() []string {
	if n.body == nil || n.body.cons == nil {
		return nil
	}
	var here []string
	for _, m := range n.body.view().Voters() {
		if m.ID != n.id && n.hub.ByKey(m.Key) != nil {
			here = append(here, m.ID)
		}
	}
	return n.means.Able(here)
}

// showHelper raises that this voter could not provision if it led, before it matters. Where nothing is configured that is
// only worth saying if the fleet provisions: another voter could, or somebody was provisioned.
func (n *Node) showHelper() {
	fault := n.means.fault
	missing := fault != nil && n.body != nil && n.body.cons != nil
	if missing && errors.Is(fault, provision.ErrNothing) {
		missing = len(n.able()) > 0 || !n.body.leads() && n.provisionedAnybody()
	}
	n.board.Set(missing, helperMissing, errText(fault))
}

func (n *Node) provisionedAnybody() bool {
	for m := range n.body.view().Members() {
		if m.Provision.LastSuccess != 0 {
			return true
		}
	}
	return false
}

// handQueueOver has a voter lead that announced that it could provision, since this one cannot. Without one the queue stays
// paused here, until there is a helper again or such a voter announces itself.
func (n *Node) handQueueOver(why string) {
	b, able := n.body, n.means.HandTo(time.Now(), n.able())
	if n.means.handing || len(able) == 0 || !b.leads() {
		return
	}
	n.means.handing = true
	n.log.Info("leadership is handed to a voter that can provision", "to", able[0], "why", control.Sentence(why))
	n.effect(func(ctx context.Context) {
		var err error
		for _, id := range able {
			if err = b.handOver(ctx, id); err == nil {
				break
			}
		}
		n.post(func(time.Time) {
			n.means.handing = false
			if err != nil {
				n.log.Warn("leadership was not handed to a voter that can provision", "error", err.Error())
			}
		})
	})
}
