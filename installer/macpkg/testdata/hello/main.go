// Command hello is a small program that the tests build for macOS and pack.
package main

func main() { println("hello") }
