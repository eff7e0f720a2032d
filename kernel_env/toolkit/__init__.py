"""KernelBench's toolkit on this evaluator: run directories, result files, baselines, scores, prompts, reports.

Files are read and written in KernelBench's own formats, so that its scripts read ours and ours read its.
Evaluation, isolation, timing and reward are the server package's; nothing here judges a submission.
"""
