// Deletes a post: turns the post into a tombstone, then deletes its comments and likes.
// The change feed does not contain deletions, so the tombstone tells the readers of the feed to
// remove their copies; it expires by its time to live. The tombstone is written first: from then on
// the post takes no comments and likes. The procedure may be repeated at any time.
// Returns {deleted, done}. If the time limit ends the run early, done is false and the caller runs
// the procedure again. The number of the error is 404 if there is no such post, and 401 if the post
// belongs to another user.
function deletePost(postId, userId) {
  var TIME_TO_LIVE_SECONDS = 2592000;
  var collection = getContext().getCollection();
  var self = collection.getSelfLink();
  var deleted = 0;

  function finish(done) {
    getContext().getResponse().setBody({ deleted: deleted, done: done });
  }

  function readPost() {
    var link = collection.getAltLink() + '/docs/' + postId;
    var accepted = collection.readDocument(link, function (err, post) {
      if (err) throw err;
      if (post.userId !== userId) throw new Error(401, 'the post belongs to another user');
      if (post.type === 'deletedPost') return nextPage();
      bury(post);
    });
    if (!accepted) finish(false);
  }

  function bury(post) {
    var tombstone = {
      id: post.id,
      postId: postId,
      userId: post.userId,
      type: 'deletedPost',
      ttl: TIME_TO_LIVE_SECONDS
    };
    var options = { etag: post._etag };
    var accepted = collection.replaceDocument(post._self, tombstone, options, function (err) {
      if (err) throw err;
      nextPage();
    });
    if (!accepted) finish(false);
  }

  function nextPage() {
    var query = {
      query: 'SELECT * FROM c WHERE c.postId = @postId AND c.type IN (\'comment\', \'like\')',
      parameters: [{ name: '@postId', value: postId }]
    };
    var options = { pageSize: 100 };
    var accepted = collection.queryDocuments(self, query, options, function (err, items) {
      if (err) throw err;
      if (items.length === 0) return finish(true);
      remove(items, 0);
    });
    if (!accepted) finish(false);
  }

  function remove(items, index) {
    if (index === items.length) return nextPage();
    var accepted = collection.deleteDocument(items[index]._self, function (err) {
      if (err) throw err;
      deleted++;
      remove(items, index + 1);
    });
    if (!accepted) finish(false);
  }

  readPost();
}
