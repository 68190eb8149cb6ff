package sessionindex

import "strings"

// DeviceOf names the device of a User-Agent header in the list of devices. Empty: it is unknown
func DeviceOf(header string) string {
	browser, system := ReadDevice(header)
	if browser != "" && system != "" {
		return browser + " / " + system
	}
	return browser + system
}

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

// ReadDevice returns the browser of a User-Agent header and its system. A name that the tables do not have is "".
func ReadDevice(header string) (browser, system string) {
	for _, b := range browserWords {
		if strings.Contains(header, b.mark) && (b.name != "Safari" || strings.Contains(header, "Safari/")) {
			browser = b.name
			break
		}
	}
	for _, s := range systemWords {
		if strings.Contains(header, s.mark) {
			system = s.name
			break
		}
	}
	return browser, system
}
