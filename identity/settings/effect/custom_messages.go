package effect

var customMessages = []Effect{
	does("custom_messages.default", "Texts of the pages in every language that has none of its own under locales.", "CustomMessages"),
	does("custom_messages.locales", "Texts of the pages in one language, country or variant.", "CustomMessages"),
}
