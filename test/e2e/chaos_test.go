// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/chaos"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/suite"
)

// What scripts/chaos sets. The seed of the short run is fixed: a test that fails fails again.
var (
	chaosDuration  = flag.Duration("chaos.duration", 20*time.Second, "how long TestChaos lasts")
	chaosSeed      = flag.Uint64("chaos.seed", 1, "seed of TestChaos; 0 draws one")
	chaosDirectory = flag.String("chaos.directory", "", "where TestChaos leaves its log, failures and summary; default: nowhere")
	chaosSlow      = flag.Bool("chaos.slow", false, "run TestChaos with the fast path off")
)

func TestChaosBreaksNoResponseAndLeavesNothing(t *testing.T) {
	suite.Long(t, suite.Machine)
	harness.OnlyXLB(t, "the test looks into XLB")
	options := chaos.Options{
		Duration: *chaosDuration, Seed: *chaosSeed, Mode: harness.Modes(t)[0], Directory: *chaosDirectory, Progress: os.Stderr,
	}
	if *chaosSlow {
		options.Mode = harness.Mode{Name: "fast-path=off"}
	}
	if options.Seed == 0 {
		options.Seed = rand.Uint64()
	}
	if options.Directory == "" {
		options.Directory = t.TempDir()
	}
	t.Logf("seed %d, %s", options.Seed, options.Mode.Name)
	chaos.Run(t, options)
}
