package web

import (
	"io/fs"
	"strings"
	"testing"
)

// TestWeightOfTheConsole bounds what an administrator's browser loads: all styles of the console, and every script.
func TestWeightOfTheConsole(t *testing.T) {
	t.Parallel()
	const most = 40 << 10
	size := len(stylesheet) + len(consoleSheet)
	err := fs.WalkDir(scriptFiles, ".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".js") {
			var raw []byte
			if raw, err = scriptFiles.ReadFile(path); err == nil {
				size += len(raw)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if size > most || size < len(stylesheet) {
		t.Errorf("styles and scripts have %d bytes, want at most %d", size, most)
	}
}
