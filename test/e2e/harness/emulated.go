// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"os"
	"sync"
)

// Emulated reports whether the processor is one that QEMU plays, some twenty times slower than its own: test/vm/run without KVM.
var Emulated = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && bytes.Contains(text, []byte("QEMU TCG CPU"))
})
