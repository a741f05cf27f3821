// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/xlb-project/xlb/internal/config/document"
)

func TestTableOfFieldsFitsEnvoysTypes(t *testing.T) {
	for _, table := range []fieldTable{supported, controlFields, dynamicFields, viewFields, adminFields} {
		checkTable(t, table)
	}
}

func checkTable(t *testing.T, all fieldTable) {
	for message, table := range all {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(message)
		if err != nil {
			t.Errorf("%s: %v", message, err)
			continue
		}
		for name, rule := range table {
			fd := d.(protoreflect.MessageDescriptor).Fields().ByName(name)
			switch {
			case fd == nil:
				t.Errorf("%s has no field %s", message, name)
			case rule.reason == "" && rule.use != translated:
				t.Errorf("%s.%s has no reason", message, name)
			case rule.use == translated && fd.IsMap():
				if v := fd.MapValue().Message(); v == nil || !document.IsAny(v) {
					t.Errorf("%s.%s is translated and maps to something else than google.protobuf.Any", message, name)
				}
			case rule.use == translated && fd.Message() != nil && !document.IsWellKnown(fd.Message()) && !all.isSupported(fd.Message()):
				t.Errorf("%s.%s is translated but the table has no %s", message, name, fd.Message().FullName())
			}
		}
	}
}
