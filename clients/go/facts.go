// What paths in arguments really are on this machine.
//
// Looks at the file system and changes nothing. What it says was so at that moment: whoever may
// change links meanwhile can still mislead.

package callgate

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"
)

// As many links as the kernel follows.
const linksMax = 40

// resolvePaths is one fact per pointer that points to a text. An empty cwd is that of the process.
func resolvePaths(arguments []byte, pointers []string, cwd string) []PathFact {
	var tree any
	if json.Unmarshal(arguments, &tree) != nil {
		return nil
	}
	var facts []PathFact
	for _, pointer := range pointers {
		if value, isText := valueAt(tree, pointer).(string); isText {
			facts = append(facts, pathFact(pointer, value, cwd))
		}
	}
	return facts
}

// pathFact is what one path is: links followed, also where the last parts do not exist.
func pathFact(pointer, value, cwd string) PathFact {
	fact := PathFact{Pointer: pointer, Value: value}
	full := value
	if !filepath.IsAbs(full) {
		if cwd == "" {
			own, err := os.Getwd()
			if err != nil {
				fact.Error = err.Error()
				return fact
			}
			cwd = own
		}
		// Not cleaned: `..` after a link leads to where the link leads.
		full = cwd + string(filepath.Separator) + full
	}
	canonical, exists, err := realPath(full)
	switch {
	case err != nil:
		// A loop of links, a directory that may not be read, a NUL.
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		fact.Error = err.Error()
	case !utf8.ValidString(canonical):
		fact.Error = "the name is no text"
	default:
		fact.Canonical, fact.Exists = canonical, &exists
	}
	return fact
}

// realPath follows every link of an absolute path. What does not exist is what it would be: to write
// through a link that leads nowhere is to make what it leads to.
func realPath(path string) (real string, exists bool, err error) {
	real, exists = string(filepath.Separator), true
	rest := strings.Split(path, string(filepath.Separator))
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, name)
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			real, exists = next, false
			continue
		}
		if err != nil {
			return "", false, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		if links++; links > linksMax {
			return "", false, errors.New("too many links")
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", false, err
		}
		if filepath.IsAbs(target) {
			real = string(filepath.Separator)
		}
		rest = append(strings.Split(target, string(filepath.Separator)), rest...)
	}
	return real, exists, nil
}

// valueAt is what an RFC 6901 pointer finds in a JSON value. Nil: nothing.
func valueAt(value any, pointer string) any {
	for _, token := range strings.Split(pointer, "/")[1:] {
		name := strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch inner := value.(type) {
		case map[string]any:
			value = inner[name]
		case []any:
			index, err := strconv.Atoi(name)
			if err != nil || index < 0 || index >= len(inner) {
				return nil
			}
			value = inner[index]
		default:
			return nil
		}
	}
	return value
}
