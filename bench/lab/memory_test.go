// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMapsAndProgramsCountOnce(t *testing.T) {
	var m Memory
	seen := map[string]bool{}
	for _, info := range []string{
		"pos:\t0\nmap_type:\t2\nmap_id:\t7\nmemlock:\t4096\n",
		"map_id:\t7\nmemlock:\t4096\n",
		"prog_type:\t5\nmemlock:\t8192\nprog_id:\t7\n",
		"pos:\t0\nflags:\t02\n",
		"map_id:\t8\nmemlock:\t100\n",
	} {
		addLocked(&m, seen, info)
	}
	if diff := cmp.Diff(Memory{Maps: 4196, Programs: 8192}, m); diff != "" {
		t.Errorf("memory (-want +got):\n%s", diff)
	}
}

func TestSizesAreReadInBytes(t *testing.T) {
	got := Sizes("55d4-7ffd ---p 00000000 00:00 0 [rollup]\nRss:      2048 kB\nPss:         3 kB\nTHPeligible: 0\n")
	if diff := cmp.Diff(map[string]int64{"Rss": 2 << 20, "Pss": 3 << 10}, got); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
}

func TestThisProcessTakesMemory(t *testing.T) {
	m, err := memoryOf(os.Getpid())
	if err != nil || m.PSS <= 0 || m.Anonymous > m.PSS {
		t.Errorf("memory %+v, %v", m, err)
	}
	if used, kernel, err := MachineMemory(); err != nil || kernel <= 0 || used <= 0 {
		t.Errorf("the machine uses %d and %d, %v", used, kernel, err)
	}
}
