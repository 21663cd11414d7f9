package tests

func sleep(string) {}
