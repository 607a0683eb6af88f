-- Shows a title and words in an alert of the system's: osascript alert.applescript TITLE WORDS
on run argv
	display alert (item 1 of argv) message (item 2 of argv) as critical
end run
