package follow

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/wire"
)

func TestForgottenWhileConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		v := r.voters[0]
		r.start()
		r.same(v)
		v.apply(admit(2), fleet.Forget(self, by, 1), admit(3))
		if err := <-r.result; !errors.Is(err, ErrForgotten) {
			t.Fatal(err)
		}
		rev := v.view().Revision() - 1
		if len(r.forgot) != 1 || r.forgot[0] != rev || r.l.View().Revision() != rev {
			t.Fatalf("told %v, applied %d, forgotten at %d", r.forgot, r.l.View().Revision(), rev)
		}
		if _, ok := r.l.View().Revoked(pub(1)); !ok {
			t.Fatal("its own revocation is not applied")
		}
		synctest.Wait()
		if n := v.src.Stats().Followers; n != 0 {
			t.Fatalf("still %d followers", n)
		}
		r.l.Close()
		r.checkEntries()
	})
}

func TestForgottenWhileAway(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		rev  uint64
	}{
		{"the word revoked", wire.NewError(wire.CodeRevoked, "17", ""), 17},
		{"in a sentence", wire.NewError(wire.CodeRevoked, "revoked at revision 42", ""), 42},
		{"without a number", wire.NewError(wire.CodeRevoked, "", ""), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1)
				r.voters[0].set(func(v *voter) { v.refuse = c.err })
				r.start()
				if err := <-r.result; !errors.Is(err, ErrForgotten) {
					t.Fatal(err)
				}
				if len(r.forgot) != 1 || r.forgot[0] != c.rev || r.refused[0].Code != wire.CodeRevoked {
					t.Fatalf("told %v, %v", r.forgot, r.refused)
				}
				r.l.Close()
			})
		})
	}
	t.Run("the log still reaches it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 1)
			v := r.voters[0]
			r.start()
			r.same(v)
			r.stop()
			v.apply(admit(2), fleet.Forget(self, by, 1), admit(3))
			r.start()
			if err := <-r.result; !errors.Is(err, ErrForgotten) {
				t.Fatal(err)
			}
			r.l.Close()
		})
	})
}

// TestForgottenInTheLog: the entry that removes a follower ends its stream also where only the log still has it.
func TestForgottenInTheLog(t *testing.T) {
	forget := fleet.Forget(self, by, 1).Encode()
	for _, e := range []Entry{{Prev: 1, Revision: 2, Command: forget}, {Prev: 1, Revision: 2, Command: fleet.Leave(self, by, 1).Encode()}} {
		if p := encode(e, 0); p.forgot != self {
			t.Fatalf("%s: %q", e.Command, p.forgot)
		}
	}
	if p := encode(Entry{Prev: 1, Revision: 2, Command: admit(1).Encode()}, 0); p.forgot != "" {
		t.Fatalf("%q", p.forgot)
	}
}

// TestSlowDial: a dial that hangs is given up like a silent voter.
func TestSlowDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		l, err := OpenLearner(r.cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		hung := 0
		result := make(chan error, 1)
		r.l = l
		go func() {
			result <- l.Run(ctx, func(ctx context.Context, m fleet.Member) (Stream, error) {
				if hung++; hung == 1 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return r.dial(ctx, m)
			})
		}()
		begun := time.Now()
		r.same(r.voters[0])
		if d := time.Since(begun); d < SilenceLimit || d > SilenceLimit+2*backoffBase {
			t.Fatalf("after %v", d)
		}
		cancel()
		<-result
		l.Close()
	})
}

func TestReplacedUnderItsId(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		v := r.voters[0]
		r.start()
		r.same(v)
		v.apply(fleet.Rekey(self, pub(50), by, 1))
		if err := <-r.result; !errors.Is(err, ErrForgotten) {
			t.Fatal(err)
		}
		r.l.Close()
	})
}

func TestNewerFormatKeepsAndStillHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		v := r.voters[0]
		r.start()
		r.same(v)
		at := r.l.View().Revision()
		v.set(func(v *voter) {
			v.edit = func(b []byte) []byte {
				if c, err := wire.DecodeCommandPush(b); err == nil {
					c.Bytes = []byte(`{"v":2,"kind":"later"}`)
					return c.Append(nil)
				}
				return b
			}
		})
		v.apply(admit(2), admit(3))
		r.until("frozen", func() bool { return r.l.Status().Frozen })
		time.Sleep(3 * time.Minute)
		if r.l.View().Revision() != at || r.told().newer != 1 || r.l.Silence(time.Now()) > HeartbeatEvery || r.l.Status().Following == "" {
			t.Fatalf("revision %d (was %d), told %d times, %+v", r.l.View().Revision(), at, r.told().newer, r.l.Status())
		}
		if s := r.l.Stats(); s.Lag != 2 {
			t.Fatalf("%+v", s)
		}
		if n := v.dialled(); n != 1 {
			t.Fatalf("%d dials", n)
		}
		r.stop()
		// The upgraded machine goes on where this one stopped.
		v.set(func(v *voter) { v.edit = nil })
		r.start()
		r.same(v)
		r.stop()
		r.checkEntries()
	})
}

func TestOtherEpochIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		v := r.voters[0]
		r.start()
		r.same(v)
		at := r.l.View().Revision()
		v.apply(fleet.Recover("v-0", by, 1))
		r.until("refused", func() bool { return len(r.told().refused) > 1 })
		if e := r.told().refused[0]; e.Code != wire.CodeRefusedByRule || !strings.Contains(e.Text, "recovery epoch 1") || e.Hint == "" {
			t.Fatalf("%v", e)
		}
		if r.l.View().Epoch() != 0 || r.l.View().Revision() != at {
			t.Fatal("a recovery was taken without an operator's word")
		}
		r.stop()

		// A voter that sends the entry all the same is not believed either.
		r2 := newRig(t, 1)
		w := r2.voters[0]
		w.set(func(v *voter) {
			v.edit = func(b []byte) []byte {
				if c, err := wire.DecodeCommandPush(b); err == nil {
					c.Bytes = fleet.Recover("v-0", by, 1).Encode()
					return c.Append(nil)
				}
				return b
			}
		})
		r2.start()
		r2.same(w)
		at = r2.l.View().Revision()
		w.apply(admit(2))
		r2.until("told", func() bool { return len(r2.told().epochs) > 0 })
		if r2.l.View().Epoch() != 0 || r2.l.View().Revision() != at {
			t.Fatal("taken")
		}
		w.set(func(v *voter) { v.edit = nil })
		r2.same(w)
		r2.stop()
		r2.checkEntries()
	})
}

func TestWrongKeyIsNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		l, err := OpenLearner(r.cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = l.Run(ctx, func(ctx context.Context, m fleet.Member) (Stream, error) {
			return r.voters[0].dial(ctx, self, pub(666))
		})
		if !errors.Is(err, context.DeadlineExceeded) || l.View().Revision() != 0 || !strings.Contains(l.Status().LastError, "another key") {
			t.Fatalf("%v, %+v", err, l.Status())
		}
		l.Close()
	})
}

func TestJunkFromAVoter(t *testing.T) {
	for _, junk := range [][]byte{nil, {0, 0, 0, 1, 9}, bytes.Repeat([]byte{0xff}, 100), (&wire.SnapshotChunk{Index: 1, Count: 3}).Append(nil),
		(&wire.SnapshotChunk{Count: 1, Bytes: []byte("junk")}).Append(nil), (&wire.CommandPush{Prev: 3, Revision: 9}).Append(nil),
		(&wire.Heartbeat{Cluster: "other"}).Append(nil), (&wire.Heartbeat{Cluster: testCluster, Epoch: 5}).Append(nil)} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 1)
			v := r.voters[0]
			once := true
			v.set(func(v *voter) {
				v.edit = func(b []byte) []byte {
					if once {
						once = false
						return junk
					}
					return b
				}
			})
			if junk == nil {
				v.edit = func(b []byte) []byte {
					if once {
						once = false
						return []byte{}
					}
					return b
				}
			}
			r.start()
			r.same(v)
			r.stop()
			r.checkEntries()
		})
	}
}

func TestServeRefuses(t *testing.T) {
	r := newRig(t, 1)
	v := r.voters[0]
	none := func(...[]byte) error { return errors.New("pushed") }
	code := func(learner string, req wire.FollowRequest) wire.ErrorCode {
		var e *wire.Error
		if err := v.src.Serve(t.Context(), learner, req, none); !errors.As(err, &e) {
			t.Fatalf("%s %+v: %v", learner, req, err)
		}
		return e.Code
	}
	if c := code(self, wire.FollowRequest{Revision: 99}); c != wire.CodeBehind {
		t.Fatal(c)
	}
	if c := code(self, wire.FollowRequest{Epoch: 1}); c != wire.CodeBehind {
		t.Fatal(c)
	}
	if c := code("stranger", wire.FollowRequest{}); c != wire.CodeNotMember {
		t.Fatal(c)
	}
	v.apply(fleet.Recover("v-0", by, 1))
	if c := code(self, wire.FollowRequest{Revision: 1}); c != wire.CodeRefusedByRule {
		t.Fatal(c)
	}
	v.src.Close()
	if err := v.src.Serve(t.Context(), self, wire.FollowRequest{}, none); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestServeEndsWithItsStream(t *testing.T) {
	r := newRig(t, 1)
	v := r.voters[0]
	if err := v.src.Serve(t.Context(), self, wire.FollowRequest{Epoch: 1}, nil); err == nil {
		t.Fatal("served")
	}
	v.set(func(v *voter) {})
	err := v.src.Serve(t.Context(), self, wire.FollowRequest{}, func(...[]byte) error { return io.ErrClosedPipe })
	if !errors.Is(err, io.ErrClosedPipe) || v.src.Stats().Followers != 0 {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err = v.src.Serve(ctx, self, wire.FollowRequest{}, func(...[]byte) error {
		if n++; n == 2 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.start()
		r.same(r.voters[0])
		if err := r.l.Run(t.Context(), r.dial); !errors.Is(err, ErrRunning) {
			t.Fatal(err)
		}
		if err := r.l.Close(); err != nil { // ends Run by itself
			t.Fatal(err)
		}
		if err := <-r.result; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := r.l.Run(t.Context(), r.dial); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		if err := r.l.Close(); err != nil {
			t.Fatal(err)
		}
		r.cancel()
	})
}
