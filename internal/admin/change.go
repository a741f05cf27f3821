// SPDX-License-Identifier: Apache-2.0

package admin

import "github.com/xlb-project/xlb/internal/model/rewrite"

var headerActions = map[rewrite.HeaderAction]string{
	rewrite.AppendOrAdd:       "APPEND_IF_EXISTS_OR_ADD",
	rewrite.AddIfAbsent:       "ADD_IF_ABSENT",
	rewrite.OverwriteOrAdd:    "OVERWRITE_IF_EXISTS_OR_ADD",
	rewrite.OverwriteIfExists: "OVERWRITE_IF_EXISTS",
}

// addChanges adds the fields of one level that change headers.
func addChanges(o object, l *rewrite.HeaderLevel) {
	for prefix, c := range map[string]*rewrite.HeaderChanges{"request_headers_": &l.Request, "response_headers_": &l.Response} {
		if len(c.Remove) > 0 {
			o[prefix+"to_remove"] = c.Remove
		}
		if len(c.Set) > 0 {
			o[prefix+"to_add"] = settingObjects(c.Set)
		}
	}
}

// settingObjects are envoy.config.core.v3.HeaderValueOption.
func settingObjects(settings []rewrite.HeaderSetting) []object {
	list := make([]object, 0, len(settings))
	for _, s := range settings {
		o := object{"header": object{"key": s.Name, "value": s.Value.Source}, "append_action": headerActions[s.How]}
		if s.KeepEmpty {
			o["keep_empty_value"] = true
		}
		list = append(list, o)
	}
	return list
}
