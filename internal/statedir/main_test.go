package statedir

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The test binary run again is a process of its own, which can be killed or end at a crash point.
const (
	childEnv     = "PACE_STATEDIR_CHILD" // what the child does
	childDirEnv  = "PACE_STATEDIR_CHILD_DIR"
	childStopEnv = "PACE_STATEDIR_CHILD_STOP" // <point>@<n>: ends at the n-th time it comes there

	exitAtPoint = 3
)

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "hold":
		childHold(os.Getenv(childDirEnv))
	case "life":
		childLife(os.Getenv(childDirEnv), stopAt(os.Getenv(childStopEnv)))
	case "restore":
		childRestore(os.Getenv(childDirEnv), stopAt(os.Getenv(childStopEnv)))
	}
}

func child(t *testing.T, what, dir, stop string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+what, childDirEnv+"="+dir, childStopEnv+"="+stop)
	cmd.Stderr = os.Stderr
	return cmd
}

func stopAt(text string) func(string) {
	name, times, _ := strings.Cut(text, "@")
	left, _ := strconv.Atoi(times)
	return func(point string) {
		if point == name {
			if left--; left == 0 {
				os.Exit(exitAtPoint)
			}
		}
	}
}

func childFatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
}

// childHold holds the directory until it is killed.
func childHold(dir string) {
	d, err := Open(dir, Options{})
	childFatal(err)
	r, _, err := d.Load(mintFrom(1))
	childFatal(err)
	fmt.Println("holds", r.NodeID)
	bufio.NewReader(os.Stdin).ReadString('\n')
}

// archivesInLife are more than are kept, so that the life comes to the pruning.
const archivesInLife = keptArchives + 2

// childLife is everything that a node does with its directory, each step told on stdout once it is durable.
func childLife(dir string, point func(string)) {
	d, err := Open(dir, Options{Point: point})
	childFatal(err)
	r, _, err := d.Load(mintFrom(1))
	childFatal(err)
	fmt.Println("id", r.NodeID, r.PublicKey)
	boot, err := d.NextBoot()
	childFatal(err)
	fmt.Println("boot", boot)
	for i := range archivesInLife {
		store := filepath.Join(dir, ConsensusDir)
		childFatal(os.Mkdir(store, 0o700))
		childFatal(os.WriteFile(filepath.Join(store, "marker"), fmt.Append(nil, i), 0o600))
		fmt.Println("store", i)
		old := r.Cluster
		r.Cluster = fmt.Sprintf("%032x", i+1)
		childFatal(d.Save(r))
		fmt.Println("cluster", r.Cluster)
		_, err := d.Archive(old, ConsensusDir, FollowDir)
		childFatal(err)
	}
	childFatal(d.Close())
	fmt.Println("reset begins")
	childFatal(ResetIdentity(dir, Options{Point: point}))
	fmt.Println("reset", r.NodeID)
}
