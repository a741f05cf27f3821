// SPDX-License-Identifier: Apache-2.0

package values

import (
	"errors"
	"os"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xlb-project/xlb/internal/files"
)

// CheckNames refuses a text in place of the name of a file or a secret (SdsSecretConfig), before an error or a server names it.
func (r *Reader) CheckNames(file, name, path string) {
	if files.IsText(file) {
		r.p.Add(path+".sds_config.path_config_source.path", "not the name of a file but a text; name the file with the secret")
	}
	if files.IsText(name) {
		r.p.Add(path+".name", "not the name of a secret but a text; name the secret")
	}
}

// PEM reads a source of text in PEM: inline, of a file or of a variable of the environment (DataSource). The error quotes none of it.
func PEM(in *corev3.DataSource) ([]byte, error) {
	text, err := textOf(in)
	if err != nil {
		return nil, err
	}
	return text, files.CheckPEM(text)
}

func textOf(in *corev3.DataSource) ([]byte, error) {
	switch s := in.GetSpecifier().(type) {
	case *corev3.DataSource_InlineString:
		return []byte(s.InlineString), nil
	case *corev3.DataSource_InlineBytes:
		return s.InlineBytes, nil
	case *corev3.DataSource_Filename:
		return files.Read(s.Filename, files.Text)
	case *corev3.DataSource_EnvironmentVariable:
		return []byte(os.Getenv(s.EnvironmentVariable)), nil
	}
	return nil, errors.New("nothing is named")
}
