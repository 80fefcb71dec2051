// How the files of this module are written.

package callgate_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const linesMax = 600

func TestEveryFileSaysWhatItIsForAndIsShortEnoughToRead(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasPrefix(path, "internal/pb/") {
			return err
		}
		seen++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		head := strings.TrimPrefix(string(text), "//go:build real\n\n")
		if !strings.HasPrefix(head, "// ") {
			t.Errorf("%s does not begin with what it is for", path)
		}
		if lines := strings.Count(string(text), "\n"); lines > linesMax {
			t.Errorf("%s has %d lines, at most %d are allowed", path, lines, linesMax)
		}
		// In parts, so that this file passes itself.
		for _, word := range []string{"TO" + "DO", "FIX" + "ME", "X" + "XX"} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s has `%s`", path, word)
			}
		}
		return nil
	})
	if err != nil || seen < 50 {
		t.Errorf("%d files, %v", seen, err)
	}
}
