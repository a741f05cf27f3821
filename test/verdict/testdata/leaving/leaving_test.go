// SPDX-License-Identifier: Apache-2.0

// Package leaving fails behind its last test, in its first run.
package leaving

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	code := m.Run()
	f, err := os.OpenFile(os.Getenv("XLB_VERDICT_FILE"), os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		f.Close()
		fmt.Println("a cgroup is left")
		code = 1
	}
	os.Exit(code)
}

func TestPasses(*testing.T) {}
