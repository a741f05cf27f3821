// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/internal/files"
	"github.com/xlb-project/xlb/internal/problem"
)

const (
	// mostFile bounds a file that the bootstrap names, and mostFiles all of them, in bytes.
	mostFile, mostFiles = 16 << 20, 64 << 20
	// fileLog is the end of the type of an access log that goes to a file.
	fileLog = ".FileAccessLog"
	noFile  = "/dev/null"
)

// sources are fields by which Envoy has resources from a control plane, or from a directory or file that it watches.
var sources = map[string]bool{
	"ads": true, "api_config_source": true, "path_config_source": true, "rtds_layer": true, "disk_layer": true, "load_stats_config": true, "file_per_tap": true,
}

// value is a value of the twin. name is that of its field, as in a .proto file; empty: it is of no field.
func (m *maker) value(path, name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		return m.object(path, name, v)
	case []any:
		twin := make([]any, len(v))
		for i := range v {
			twin[i] = m.value(problem.At(path, i), name, v[i])
		}
		return twin
	}
	return value
}

// object is one of the twin. Of what field it is says name.
func (m *maker) object(path, name string, object map[string]any) map[string]any {
	twin := make(map[string]any, len(object))
	kind, _ := object["@type"].(string)
	for _, key := range sorted(object) {
		at, of := problem.Field(path, key), snake(key)
		text, isText := object[key].(string)
		switch {
		case sources[of], of == "path" && isSource(name):
			m.refuse(at)
		case isFree(of):
			twin[key] = object[key]
		case of == "watched_directory":
			m.leave(at, "the delegate has copies, which do not change")
		case isText && of == "filename":
			twin[key] = m.copyOf(at, text)
		case isText && of == "environment_variable":
			m.variable(twin, key, text)
		case isText && (of == "event_log_path" || of == "path" && strings.HasSuffix(kind, fileLog)):
			twin[key] = m.log(at, text)
		default:
			twin[key] = m.value(at, of, object[key])
		}
	}
	return twin
}

// isSource reports a field of the type ConfigSource, of which path is the former name of path_config_source.
func isSource(name string) bool {
	switch name {
	case "lds_config", "cds_config", "eds_config", "sds_config", "rtds_config":
		return true
	}
	return strings.HasSuffix(name, "config_source")
}

// isFree reports a field in which names are the user's (google.protobuf.Struct).
func isFree(name string) bool { return name == "filter_metadata" || name == "json_format" }

// variable puts the value of a variable where its name is: the delegate has no environment. Envoy says which one is not set.
func (m *maker) variable(twin map[string]any, key, name string) {
	value, set := os.LookupEnv(name)
	if !set {
		twin[key] = name
		return
	}
	twin["inline_string"] = value
}

// log is where a log goes: to the daemon's own, or nowhere.
func (m *maker) log(path, file string) string {
	switch file {
	case "/dev/stdout", "/dev/stderr", noFile:
		return file
	}
	m.leave(path, "the delegate writes no file of the host")
	return noFile
}

// copyOf is the name of a file's copy.
func (m *maker) copyOf(path, file string) string {
	if name, ok := m.copies[file]; ok {
		return name
	}
	data, err := files.Read(file, mostFile)
	if err != nil {
		m.problems.Add(path, "%v", err)
		return file
	}
	if m.copied += len(data); m.copied > mostFiles {
		m.problems.Add(path, "with this file there are more than %d MiB for the delegate", mostFiles>>20)
		return file
	}
	name := Copies + "/" + strconv.Itoa(len(m.twin.Files))
	m.copies[file] = name
	m.twin.Files = append(m.twin.Files, File{Name: name, Data: data})
	return name
}

// sorted are the keys in an order that does not change.
func sorted(object map[string]any) []string { return slices.Sorted(maps.Keys(object)) }

// field is the value of a field by its name in a .proto file; nil: the object lacks it.
func field(object map[string]any, name string) any {
	for key, value := range object {
		if snake(key) == name {
			return value
		}
	}
	return nil
}

func has(object map[string]any, name string) bool { return field(object, name) != nil }

// snake is the name of a field in a .proto file: JSON has it in lowerCamelCase as well.
func snake(key string) string {
	var out strings.Builder
	for i := range len(key) {
		if c := key[i]; 'A' <= c && c <= 'Z' {
			out.WriteByte('_')
			out.WriteByte(c - 'A' + 'a')
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}
