package sessionindex_test

import (
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/sessionindex"
)

func TestReadDevice(t *testing.T) {
	t.Parallel()
	for header, want := range map[string][2]string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0":           {"Edge", "Windows"},
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1": {"Safari", "iPhone"},
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/142.0 Mobile/15E148 Safari/604.1":  {"Chrome", "iPhone"},
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36":                         {"Chrome", "Android"},
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:145.0) Gecko/20100101 Firefox/145.0":                                                    {"Firefox", "macOS"},
		"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36":                          {"Chrome", "ChromeOS"},
		"curl/8.5.0": {"curl", ""},
		"":           {},
		`"><script>`: {},
	} {
		browser, system := sessionindex.ReadDevice(header)
		if got := [2]string{browser, system}; got != want {
			t.Errorf("ReadDevice(%q) = %+v, want %+v", header, got, want)
		}
	}
}
