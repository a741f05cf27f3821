// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"os"
)

// SettingProgram changes a setting of the kernel for a while.
const SettingProgram = "setting"

func init() { registry[SettingProgram] = runSetting }

// SettingSpec is a file of the kernel's, and what is written there until the test wants the end, or is no more.
type SettingSpec struct{ Path, Value string }

// runSetting answers when the value is in force. The former comes back however the test ends.
func runSetting(s *stdio) error {
	var spec SettingSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	before, err := os.ReadFile(spec.Path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(spec.Path, []byte(spec.Value), 0); err != nil {
		return err
	}
	answered := s.answer(spec)
	s.waitForEnd()
	if err := os.WriteFile(spec.Path, before, 0); err != nil {
		return fmt.Errorf("restore %s: %w", spec.Path, err)
	}
	return answered
}
