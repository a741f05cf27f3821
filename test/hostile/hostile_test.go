// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

// What make test-hostile sets. The seed of the short run is fixed: a test that fails fails again.
var (
	duration  = flag.Duration("hostile.duration", 0, "how long scenes are begun; 0: as many as -hostile.scenes says")
	scenes    = flag.Int("hostile.scenes", 20, "how many scenes are played; with -short 6")
	seed      = flag.Uint64("hostile.seed", 1, "seed of the scenes; 0 draws one")
	only      = flag.Int("hostile.scene", -1, "the only scene to play")
	alone     = flag.Bool("hostile.alone", false, "nobody else uses this machine")
	directory = flag.String("hostile.directory", "", "where violations and a summary are left; default: nowhere")
)

// shortScenes show each kind of client at least once.
const shortScenes = 6

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m))
}

func TestNoByteComesToAWrongPlace(t *testing.T) {
	harness.OnlyXLB(t, "the test looks into XLB")
	options := Options{
		Duration: *duration, Scenes: *scenes, Seed: *seed, Scene: *only, Alone: *alone, FastPath: harness.FastPath(t),
		Directory: *directory, Progress: os.Stderr,
	}
	if testing.Short() {
		options.Scenes = shortScenes
	}
	if options.Seed == 0 {
		options.Seed = rand.Uint64()
	}
	if options.Directory == "" {
		options.Directory = t.TempDir()
	}
	t.Logf("seed %d", options.Seed)
	summary := Run(t, options)
	t.Logf("%d scenes, %d violations; clients %s; servers %s",
		summary.Scenes, len(summary.Violations), inOrder(summary.Clients), inOrder(summary.Servers))
}
