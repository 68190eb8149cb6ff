package front

import (
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/page"
)

// AgentText names the browser of a User-Agent header for people.
func AgentText(header string) page.Text {
	switch a := readAgent(header); {
	case a.Browser != "" && a.System != "":
		return page.Say("device.browser", "browser", a.Browser, "system", a.System)
	case a.Browser != "" || a.System != "":
		return page.Say(a.Browser + a.System)
	}
	return page.Say("device.unknown")
}

// agent is the name of a browser and of its system. A name that the tables below do not have is "".
type agent struct{ Browser, System string }

// browserWords are the browsers by a mark in the header, in order: Edge also claims to be Chrome, Chrome to be Safari.
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

// systemWords are the systems by a mark in the header, in order: Android also claims to be Linux.
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
