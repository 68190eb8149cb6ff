package effect

var messages = []Effect{
	does("messages", "Texts of the pages in one language, where custom_messages has none.", "CustomMessages"),
}
