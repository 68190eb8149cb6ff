package session

import (
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// AgentText is a browser in words.
func AgentText(header string) page.Text {
	switch a := readAgent(header); {
	case a.Browser != "" && a.System != "":
		return page.Say("device.browser", "browser", a.Browser, "system", a.System)
	case a.Browser != "" || a.System != "":
		return page.Say(a.Browser + a.System)
	}
	return page.Say("device.unknown")
}

// maxAgent bounds the bytes that a session keeps of the browser's name for itself.
const maxAgent = 256

// KeptAgent is what is kept of a User-Agent header.
func KeptAgent(header string) string {
	s := event.Clean(header)
	return strings.ToValidUTF8(s[:min(len(s), maxAgent)], "")
}

// agent is a browser in words: the big families, the special ones before those that they claim to be. What is not among them is "".
type agent struct{ Browser, System string }

var browserWords = []struct{ mark, name string }{
	{"Edg/", "Edge"},
	{"EdgA/", "Edge"},
	{"EdgiOS/", "Edge"},
	{"OPR/", "Opera"},
	{"Vivaldi/", "Vivaldi"},
	{"SamsungBrowser/", "Samsung Internet"},
	{"FxiOS/", "Firefox"},
	{"Firefox/", "Firefox"},
	{"CriOS/", "Chrome"},
	{"HeadlessChrome/", "Chrome"},
	{"Chrome/", "Chrome"},
	{"Version/", "Safari"},
	{"curl/", "curl"},
}

var systemWords = []struct{ mark, name string }{
	{"iPhone", "iPhone"},
	{"iPad", "iPad"},
	{"Android", "Android"},
	{"CrOS", "ChromeOS"},
	{"Windows", "Windows"},
	{"Macintosh", "macOS"},
	{"Mac OS X", "macOS"},
	{"Linux", "Linux"},
}

func readAgent(header string) (a agent) {
	for _, b := range browserWords {
		if strings.Contains(header, b.mark) && (b.name != "Safari" || strings.Contains(header, "Safari/")) {
			a.Browser = b.name
			break
		}
	}
	for _, s := range systemWords {
		if strings.Contains(header, s.mark) {
			a.System = s.name
			break
		}
	}
	return a
}
