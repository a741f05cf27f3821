// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"errors"

	"github.com/xlb-project/xlb/test/machine"
)

// SettingProgram changes a setting of the machine for a while.
const SettingProgram = "setting"

func init() { registry[SettingProgram] = runSetting }

// SettingSpec is a file below /proc/sys, and what is written there until the test wants the end, or is no more.
type SettingSpec struct{ Path, Value string }

// runSetting answers when the value is in force. The former one comes back however the test ends.
func runSetting(s *stdio) error {
	var spec SettingSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	setting, err := machine.Change(spec.Path, spec.Value)
	if err != nil {
		return err
	}
	answered := s.answer(spec)
	s.waitForEnd()
	return errors.Join(setting.Restore(), answered)
}
