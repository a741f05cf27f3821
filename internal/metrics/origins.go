// SPDX-License-Identifier: Apache-2.0

package metrics

import "time"

// OriginKey tells where a part of the configuration comes from.
type OriginKey struct {
	// Kind is "configuration" for all of it, "views" for the file that names them, "bootstrap", a kind of resources as "clusters", "secret" or "certificate".
	Kind string `json:"kind"`
	// Source is "file" or "server"; "all" of the configuration.
	Source string `json:"source"`
}

// Origin is what has become of all that comes from there.
type Origin struct {
	OriginKey
	// Successful: all that came last was taken.
	Successful bool `json:"successful"`
	// Taken is when something was last taken; zero: nothing was yet.
	Taken time.Time `json:"taken,omitzero"`
	// Refused counts how often something came of which not all was taken.
	Refused uint64 `json:"refused"`
}

// JoinOrigins has those of one kind and source together, in the order of their first ones.
func JoinOrigins(list []Origin) (out []Origin) {
	at := map[OriginKey]int{}
	for _, o := range list {
		i, known := at[o.OriginKey]
		if !known {
			at[o.OriginKey] = len(out)
			out = append(out, o)
			continue
		}
		out[i].Successful = out[i].Successful && o.Successful
		if o.Taken.After(out[i].Taken) {
			out[i].Taken = o.Taken
		}
		out[i].Refused += o.Refused
	}
	return out
}

// Metrics of the configuration. Names of the first two are those of Prometheus's own reloads.
var (
	reloadSuccessful = describe("xlb_config_last_reload_successful",
		"1 if all that came last of this kind of configuration was taken, 0 while something of it is refused and what was before stays in force.", kindLabel, sourceLabel)
	reloadTime = describe("xlb_config_last_reload_success_timestamp_seconds",
		"When something of this kind of configuration was last taken, in seconds since 1970.", kindLabel, sourceLabel)
	configRefused = describe("xlb_config_refused_total",
		"How often something of this kind of configuration came of which not all was taken.", kindLabel, sourceLabel)
	bootstrapVersion = describe("xlb_bootstrap_version",
		"The bootstrap in force: the first six bytes of its text's SHA-256, as a number.")
)

const (
	kindLabel   = "kind"
	sourceLabel = "source"
)

func (out emitter) origins(s *Snapshot) {
	for i := range s.Origins {
		o := &s.Origins[i]
		out.gauge(reloadSuccessful, number(o.Successful), o.Kind, o.Source)
		if !o.Taken.IsZero() {
			out.gauge(reloadTime, uint64(o.Taken.Unix()), o.Kind, o.Source)
		}
		out.counter(configRefused, o.Refused, o.Kind, o.Source)
	}
	out.gauge(bootstrapVersion, s.BootstrapVersion)
}

func (l *list) addOrigin(o *Origin) {
	prefix := "xlb.config." + o.Kind + "." + o.Source + "."
	l.add(prefix+"last_reload_successful", number(o.Successful))
	if !o.Taken.IsZero() {
		l.add(prefix+"last_reload_success_timestamp_seconds", uint64(o.Taken.Unix()))
	}
	l.add(prefix+"refused", o.Refused)
}
