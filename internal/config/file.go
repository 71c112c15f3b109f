package config

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile is the largest file of settings, in bytes: far above any that a person writes.
const maxFile = 1 << 20

// ErrFileForm: a file that is not a flat list of keys.
var ErrFileForm = errors.New("not a file of settings")

var yamlLine = regexp.MustCompile(`line (\d+): (.*)`)

// fromFile reads the YAML file of --config: one mapping from option names, underscores for dashes, to a value or a list.
func fromFile(name string, data []byte) (layer, error) {
	at := func(line int) string {
		if line <= 0 {
			return name
		}
		return name + " line " + strconv.Itoa(line)
	}
	refused := func(line int, key, why, remedy string) error {
		return &RefusedError{Where: at(line), Key: key, Why: why, Remedy: remedy, Err: ErrFileForm}
	}
	if len(data) > maxFile {
		return nil, refused(0, "", fmt.Sprintf("it has %d bytes, and at most %d are read", len(data), maxFile), "name a file of settings")
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(data)))
	var doc yaml.Node
	if err := decoder.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return layer{}, nil // nothing but comments
		}
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			line, _ := strconv.Atoi(m[1])
			return nil, refused(line, "", "it is not YAML: "+m[2], "write key: value, one a line")
		}
		return nil, refused(0, "", "it is not YAML: "+err.Error(), "write key: value, one a line")
	}
	var more yaml.Node
	if err := decoder.Decode(&more); err == nil {
		return nil, refused(more.Line, "", "a second document begins here", "keep one")
	}
	if len(doc.Content) != 1 {
		return layer{}, nil
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return layer{}, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, refused(root.Line, "", "it is not a list of keys", "write key: value, one a line")
	}
	out := layer{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		k, v := root.Content[i], root.Content[i+1]
		o := findOption(func(o *Option) bool { return o.FileName() == k.Value && !slices.Contains(o.Except, OriginFile) })
		if k.Kind != yaml.ScalarNode || o == nil {
			var names []string
			for j := range Options {
				if !slices.Contains(Options[j].Except, OriginFile) {
					names = append(names, Options[j].FileName())
				}
			}
			return nil, refused(k.Line, clip(k.Value), "there is no such key"+suggest(k.Value, names),
				"remove it, or spell it as docs/flags.md does")
		}
		if _, twice := out[o.Name]; twice {
			return nil, refused(k.Line, k.Value, "the key comes a second time", "keep one")
		}
		values, line, err := o.fileValues(v)
		if err != nil {
			return nil, refused(line, k.Value, err.Error(), "")
		}
		out[o.Name] = given{values: values, key: k.Value, where: at(k.Line)}
	}
	return out, nil
}

// fileValues reads the value of one key.
func (o *Option) fileValues(v *yaml.Node) (values []string, line int, err error) {
	switch {
	case v.Kind == yaml.ScalarNode:
		if v.Tag == "!!null" {
			if o.EmptyOff {
				return nil, v.Line, errors.New(`it has no value; write "" to turn it off`)
			}
			return nil, v.Line, errors.New("it has no value; remove the key to have the default")
		}
		return []string{v.Value}, v.Line, nil
	case v.Kind == yaml.SequenceNode && o.Repeat:
		for _, e := range v.Content {
			if e.Kind != yaml.ScalarNode || e.Tag == "!!null" {
				return nil, e.Line, errors.New("an entry of the list is not a plain value")
			}
			values = append(values, e.Value)
		}
		return values, v.Line, nil
	case v.Kind == yaml.MappingNode && o.Name == "label":
		for i := 0; i+1 < len(v.Content); i += 2 {
			if v.Content[i].Kind != yaml.ScalarNode || v.Content[i+1].Kind != yaml.ScalarNode {
				return nil, v.Content[i].Line, errors.New("a label is a plain key and a plain value")
			}
			values = append(values, v.Content[i].Value+"="+v.Content[i+1].Value)
		}
		return values, v.Line, nil
	case v.Kind == yaml.AliasNode:
		return nil, v.Line, errors.New("an alias is not followed here; write the value itself")
	case o.Repeat:
		return nil, v.Line, errors.New("a value or a list of values belongs there")
	}
	return nil, v.Line, errors.New("one plain value belongs there")
}
